package ftp

import "github.com/courierhq/courier/internal/connfile"

// UnmarshalJSON reads the form {"host": "files.example.com", "username":
// "acme", "password": "secret:acme", "security": "explicit"}. The names are
// those of the fields in snake case; times are numbers of seconds:
// connect_timeout_seconds, keep_alive_seconds, operation_timeout_seconds.
// Unknown names are errors.
func (c *Connection) UnmarshalJSON(text []byte) error {
	type plain Connection // without this method
	var f struct {
		plain
		connfile.Timeouts
		Password  string `json:"password"`
		ClientKey string `json:"client_key"`
	}
	if err := connfile.DecodeStrict(text, &f); err != nil {
		return err
	}
	*c = Connection(f.plain)
	c.Password, c.ClientKey = f.Password, f.ClientKey
	c.ConnectTimeout, c.KeepAlive, c.OperationTimeout = f.Durations()
	return nil
}

// ReadConnections reads a JSON file that maps ids to connections, such as
// {"acme": {"host": "files.example.com", ...}}; see [Connection.UnmarshalJSON].
// All that is wrong with a connection by itself is reported here. The server is
// not asked, and secrets are not resolved.
func ReadConnections(path string) (Map, error) {
	return connfile.ReadConnections(path, "ftp", func(c Connection, _ []string) error { return c.check() })
}
