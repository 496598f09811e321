// Package contract holds package httpapi to its OpenAPI document by the libraries of
// other people, github.com/pb33f/libopenapi and its validator: the document is valid,
// and whatever is sent to a route that the document forbids has an answer that is in the
// document. A client that github.com/oapi-codegen/oapi-codegen generates makes a tour through
// the API. It has tests only, and is a module of its own, so that the libraries are no
// dependency of Courier.
package contract
