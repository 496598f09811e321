module github.com/courierhq/courier/x/mail

go 1.26.6

require (
	github.com/courierhq/courier v0.0.0
	github.com/wneessen/go-mail v0.8.1
)

require (
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/courierhq/courier => ../..
