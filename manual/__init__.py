"""What builds the manual beside MkDocs: hooks, and the script that takes the picture of a running job."""
