"""How people run jobs: the command line, clients, clusters and their dispatcher, REST, the dashboard."""
