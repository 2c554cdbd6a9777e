"""Proposals from your requests and from the findings of models."""
