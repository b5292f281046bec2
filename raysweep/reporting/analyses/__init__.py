"""What each kind of analysis fits, shows and says."""
