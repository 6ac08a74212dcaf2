"""OpenID Connect: authorization code with PKCE, one provider, everything fetched through `webapp.base.outbound`."""
