// Package filesync makes files and the names of directories durable, on all systems.
package filesync
