package pgstore

// ClaimLock is the lock of claims that count, for tests.
func ClaimLock(schema string) int64 { return claimLock(schema) }
