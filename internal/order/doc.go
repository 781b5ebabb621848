// Package order sends signed orders, such as those on incidents, and reads their result. Commands, and
// services that open incidents, use it.
//
// It may import pkg/approval and streams. Begin reading with order.go, its only file.
package order
