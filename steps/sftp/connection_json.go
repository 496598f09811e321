package sftp

import "github.com/courierhq/courier/internal/connfile"

// UnmarshalJSON reads the form {"host": "files.example.com", "port": 22,
// "username": "acme", "password": "secret:acme", "host_keys": ["SHA256:..."]}.
// The names are the names of the fields in snake case. Times are numbers of
// seconds: connect_timeout_seconds, keep_alive_seconds,
// operation_timeout_seconds. Unknown names are errors.
func (c *Connection) UnmarshalJSON(text []byte) error {
	type plain Connection // without this method
	var f struct {
		plain
		connfile.Timeouts
		Password    string `json:"password"`
		PrivateKey  string `json:"private_key"`
		Passphrase  string `json:"passphrase"`
		Certificate string `json:"certificate"`
	}
	if err := connfile.DecodeStrict(text, &f); err != nil {
		return err
	}
	*c = Connection(f.plain)
	c.Password, c.PrivateKey, c.Passphrase, c.Certificate = f.Password, f.PrivateKey, f.Passphrase, f.Certificate
	c.ConnectTimeout, c.KeepAlive, c.OperationTimeout = f.Durations()
	return nil
}
