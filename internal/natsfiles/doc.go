// Package natsfiles names the files that a program needs to connect to NATS, and reads them: the credentials and NATS
// contexts of a data folder. It also reads the JSON lists in which natsserver and token keep the credentials and tokens
// that they issued. It writes no file: natsserver creates credentials and contexts, and pkg/files writes files of any
// kind. It is separate from natsserver so that a small client does not link a server.
//
// It may import streams. Begin reading with natsfiles.go; list.go reads the lists.
package natsfiles
