"""Images: files and what encoders read of them. Pillow is an optional extra, imported where it is used."""
