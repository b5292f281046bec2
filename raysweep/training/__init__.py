"""What workloads that train share: draws, devices, optimizer, schedules, batches of models, gangs, Hessians."""
