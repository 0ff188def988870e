"""What people teach a pre-trained model: objectives whose targets a person wrote."""
