module github.com/courierhq/courier

go 1.26.6

require (
	github.com/ProtonMail/go-crypto v1.5.2
	github.com/bmatcuk/doublestar/v4 v4.10.4
	github.com/klauspost/compress v1.20.3
	github.com/pkg/sftp v1.13.12
	github.com/skeema/knownhosts v1.3.3
	golang.org/x/crypto v0.58.0
)

require (
	github.com/cloudflare/circl v1.6.3 // indirect
	github.com/kr/fs v0.1.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
