// Package order sends signed orders, on incidents for instance, and reads what
// became of them. It is what the commands and the services that open incidents
// share.
//
// It may import pkg/approval and streams. Begin reading with order.go, its only file.
package order
