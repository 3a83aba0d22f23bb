"""What is kept: bytes under their content hash, and the catalogue of models, versions and aliases."""
