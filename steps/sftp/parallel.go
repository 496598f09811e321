package sftp

const (
	// manyRequests is how many small requests are under way at a time.
	manyRequests = 16
	// manyFiles is how many files are transferred at a time where there are
	// several: small ones spend most of their time waiting for answers.
	manyFiles = 8
)
