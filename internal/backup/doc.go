// Package backup makes and restores backups. A backup is a data folder without the parts that can be rebuilt, as a
// folder or as one archive. `lazaret backup` asks the running pipeline for the copy, adds the auditor's log and moves
// the result. Package embedded calls Copy while its server is stopped. `lazaret restore` calls Restore.
//
// The auditor's log is copied before the streams: an auditor accepts a ledger that is ahead of its log, and refuses a
// ledger that is behind. The streams are copied while the server is stopped, so that they are consistent. Of the state
// of the stages, the backup contains only the snapshots that were made for a trim of the ledger; the stages compute the
// rest from the ledger.
//
// It may import internal/datafolder, internal/natsserver and internal/stage, but not internal/embedded. Begin reading
// with Copy in copy.go, which says what belongs to a backup, then Restore in restore.go. archive.go packs and unpacks
// archives, backup.go moves folders.
package backup
