//go:build unix && !linux

package procgroup

// wait waits for the program's end and kills what is left of its group. Here a
// signal may come just after the system has given the number away, if nothing is
// left of the group: package syscall has no way to wait without that.
func (g *Group) wait() error {
	defer g.end()
	return g.cmd.Wait()
}
