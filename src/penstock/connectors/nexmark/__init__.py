"""The events of the Nexmark benchmark: people, auctions and bids, as batches of Arrow or as Rows."""
