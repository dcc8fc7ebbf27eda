"""What reviews of recipes need: what changed, the schema for editors, edits that keep comments, the index of a tree."""
