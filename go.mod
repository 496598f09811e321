module github.com/courierhq/courier

go 1.26.6

require (
	github.com/ProtonMail/go-crypto v1.5.2
	github.com/bmatcuk/doublestar/v4 v4.10.4
	github.com/jackc/pgx/v5 v5.12.0
	github.com/klauspost/compress v1.20.3
	github.com/pkg/sftp v1.13.12
	golang.org/x/crypto v0.58.0
)

require (
	github.com/cloudflare/circl v1.6.3 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/kr/fs v0.1.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
