"""Thin views: each finds what is shown (selectors), or calls one service, and renders one template."""
