// Package durable writes files atomically: after a crash a file has either the old or the new
// content. Glob lists files. It imports no package of Lazaret.
//
// Begin reading with durable.go, its only file.
package durable
