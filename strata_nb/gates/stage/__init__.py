"""What cases run on: engines, the texts they take, and the ways they are taken."""
