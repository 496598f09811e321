package ftp

import (
	"errors"

	"github.com/courierhq/courier/internal/connfile"
)

// UnmarshalJSON reads the form {"host": "files.example.com", "username": "acme", "password":
// "secret:acme", "security": "explicit"}. The names are the names of the fields in snake case.
// Times are numbers of seconds: connect_timeout_seconds, keep_alive_seconds,
// operation_timeout_seconds. Unknown names are errors.
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

// ReadConnections reads a JSON file that maps ids to connections, such as {"acme": {"host":
// "files.example.com", ...}}; see [Connection.UnmarshalJSON]. It reports all errors in the
// connections, each with its line. Credentials in the file itself are errors too, except for
// anonymous users. It does not contact servers or resolve secrets. Before a connection is
// checked, each function in set may set fields that a file cannot hold, such as Dial.
func ReadConnections(path string, set ...func(id string, c *Connection)) (Map, error) {
	return connfile.ReadConnections(path, "ftp", func(id string, c *Connection) error {
		err := connfile.InFile("client_key", c.ClientKey)
		if c.Username != "" && c.Username != "anonymous" {
			err = errors.Join(connfile.InFile("password", c.Password), err)
		}
		for _, f := range set {
			f(id, c)
		}
		return err
	}, func(id string, all map[string]Connection) error { return all[id].check() })
}
