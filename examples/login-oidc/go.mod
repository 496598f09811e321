module github.com/courierhq/courier/examples/login-oidc

go 1.26.6

require (
	github.com/coreos/go-oidc/v3 v3.21.0
	github.com/courierhq/courier v0.0.0
	github.com/go-jose/go-jose/v4 v4.1.9
	golang.org/x/oauth2 v0.38.0
)

replace github.com/courierhq/courier => ../..
