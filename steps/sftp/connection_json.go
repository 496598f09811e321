package sftp

import "github.com/courierhq/courier/internal/connfile"

// UnmarshalJSON reads the form {"host": "files.example.com", "port": 22,
// "username": "acme", "password": "secret:acme", "host_keys": ["SHA256:..."]}.
// The names are those of the fields in snake case; times are numbers of
// seconds: connect_timeout_seconds, keep_alive_seconds,
// operation_timeout_seconds. Unknown names are errors.
func (c *Connection) UnmarshalJSON(text []byte) error {
	type plain Connection // without this method
	var f struct {
		plain
		Password                string   `json:"password"`
		PrivateKey              string   `json:"private_key"`
		Passphrase              string   `json:"passphrase"`
		Certificate             string   `json:"certificate"`
		ConnectTimeoutSeconds   float64  `json:"connect_timeout_seconds"`
		KeepAliveSeconds        *float64 `json:"keep_alive_seconds"`
		OperationTimeoutSeconds float64  `json:"operation_timeout_seconds"`
	}
	if err := connfile.DecodeStrict(text, &f); err != nil {
		return err
	}
	*c = Connection(f.plain)
	c.Password, c.PrivateKey, c.Passphrase, c.Certificate = f.Password, f.PrivateKey, f.Passphrase, f.Certificate
	c.ConnectTimeout = connfile.Seconds(f.ConnectTimeoutSeconds)
	c.OperationTimeout = connfile.Seconds(f.OperationTimeoutSeconds)
	if f.KeepAliveSeconds != nil {
		c.KeepAlive = new(connfile.Seconds(*f.KeepAliveSeconds))
	}
	return nil
}
