// Package durable writes files whole or not at all: after a crash a file is the old one
// or the new one. It imports nothing of ours.
//
// Begin reading with durable.go, its only file.
package durable
