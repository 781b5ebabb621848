// Package part makes the parts of a data folder: for each process that runs apart, a folder with only the keys,
// credentials, contexts and pinned keys that it needs. `lazaret server part` makes them and makes them again when
// credentials are renewed.
//
// It may import internal/datafolder, internal/natsfiles, internal/natsserver, pkg/chain and pkg/keys, but not
// internal/embedded. Begin reading with Files and Make in part.go; merge.go keeps the keys and handovers that only a
// part has.
package part
