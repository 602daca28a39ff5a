"""What a trial costs beside its training: per step against a bare loop, and once per process."""
