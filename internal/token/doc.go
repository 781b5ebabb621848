// Package token keeps the bearer tokens of the HTTP door. A token stands for one
// credential of a data folder and carries no rights of its own. The folder of the
// credentials has a list with the SHA-256 of each token; a token has 256 random bits,
// so its hash needs no salt. The token itself is printed once and kept nowhere,
// except for the default agent's, which lies beside its credential.
//
// It may import internal/natsfiles, pkg/durable and streams. Begin reading with token.go, its only
// file.
package token
