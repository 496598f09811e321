// Package synced shows that no step is recorded as completed before what it
// wrote would survive a power cut: the content of each file was synced before
// the file got its final name, and the directories that hold the name were
// synced before the transition was written.
//
// It has tests only, for Linux. They run a pipeline in a process of its own and
// watch that process's system calls as a debugger does (ptrace), so what is
// tested is what ships, without a hook in it, down to the calls that the
// standard library makes. Nothing has to be installed for that. Where a process
// may not trace its own children, as in some containers, the tests fail and say
// so; Docker, Podman and the usual hosted runners allow it.
//
// The calls are fed to a model of a disk that forgets what was not synced; see
// disk.
package synced
