"""The encoder and its parts, in plain PyTorch; nothing here touches a file."""
