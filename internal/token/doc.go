// Package token manages the bearer tokens of the HTTP gateway. A token maps to one credential of a data
// folder and has no rights of its own. The folder of the credentials has a list with the SHA-256 of
// each token. A token has 256 random bits, so its hash needs no salt. The token itself is printed once
// and not stored. The one exception is the default agent's token, which is stored beside its credential.
//
// It may import internal/natsfiles, pkg/files and streams. Begin reading with token.go, its only
// file.
package token
