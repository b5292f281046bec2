"""What workloads that train share: draws, devices, the trainer, schedules, gangs, Hessians."""
