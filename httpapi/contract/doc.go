// Package contract tests package httpapi against its OpenAPI document with independent libraries,
// github.com/pb33f/libopenapi and its validator. The tests check that the document is valid, and
// that requests which the document forbids get an answer that is in the document. A client that
// github.com/oapi-codegen/oapi-codegen generates calls the routes of the API. The package has only
// tests, and is a separate module, so that Courier does not depend on the libraries.
package contract
