module github.com/courierhq/courier/internal/test/libraries

go 1.26.6

require (
	github.com/courierhq/courier v0.0.0
	github.com/jlaffaye/ftp v0.2.4
	github.com/pkg/sftp v1.13.12
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
)

require (
	github.com/kr/fs v0.1.0 // indirect
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
)

replace github.com/courierhq/courier => ../../../
