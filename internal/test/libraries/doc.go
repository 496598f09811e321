// Package libraries compares the clients of this module with the usual libraries
// for the same protocols, github.com/pkg/sftp and github.com/jlaffaye/ftp. The first
// is used behind a guard, the second is not. Tests show each defect for which that is so,
// against the library itself, and fail when the defect is gone. Others give the same servers
// to both clients and compare what they see. The schemas of package jsonschema are given to a validator,
// github.com/santhosh-tekuri/jsonschema. It is a module of its own, so that the libraries are no
// dependency of Courier.
package libraries
