package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"lazaret/internal/auditor"
	"lazaret/internal/backup"
	"lazaret/internal/cli/audit"
	"lazaret/internal/cli/verb"
	"lazaret/internal/datafolder"
	"lazaret/internal/natsserver"
	"lazaret/internal/retain"
	"lazaret/internal/token"
)

func init() { Verbs.Add("", backupCommand, restoreCommand) }

func backupCommand(a *verb.App) *cobra.Command {
	var with, without bool
	var wait time.Duration
	c := &cobra.Command{
		Use:   "backup {DIR | FILE.tar} {--with-keys | --without-keys}",
		Short: "Copy a running pipeline's data to a new folder or one file",
		Long: `Copy the data folder to DIR while "lazaret up" is running, or to a tar archive if the name ends
with .tar. DIR or the archive must not exist yet, and must be outside the data folder. The copy has the streams, the
auditor's log, the trust file, sealed shards, the signed records of erasures, memories, and the snapshots of state that
stages made when the ledger was trimmed. The stages compute all other state from the ledger at the first start.

The embedded nats-server stops while the streams are copied; clients wait and reconnect.
The backup contains everything that was acknowledged before this stop. --with-keys also copies keys, credentials and
your own files in the data folder: anyone with such a backup can read it and sign with its keys. --without-keys copies
only files that Lazaret made. It copies memories and the state of hooks whole, unencrypted, with any secret that an
agent wrote there. It leaves out every other file that looks like a key or contains one. The output names the files
that are not backed up, such as notify.yaml. Without keys the streams in a backup are unreadable, so store the keys
elsewhere. An erasure changes no backup: delete the backups that were made before it.`,
		Example: "  lazaret backup /backup/2026-11-23 --without-keys\n  lazaret backup /backup/2026-11-23.tar " +
			"--without-keys\n" +
			"  lazaret restore /backup/2026-11-23.tar --keys /safe/keys --data ./restored",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if with == without {
				return errors.New("choose --with-keys or --without-keys")
			}
			to, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if _, err := os.Lstat(to); err == nil {
				return fmt.Errorf("%s exists already: name a new one", to)
			}
			a.Conn.Resolve()
			if inside(a.Conn.Data, to) {
				return fmt.Errorf("%s is in the data folder %s, which later backups would copy: name a place outside of it", to,
					a.Conn.Data)
			}
			return makeBackup(a, cmd, to, with, wait)
		},
	}
	c.Flags().BoolVar(&with, "with-keys", false, "copy keys and credentials too")
	c.Flags().BoolVar(&without, "without-keys", false, "leave keys and credentials out")
	c.Flags().DurationVar(&wait, "wait", 10*time.Minute, "the time limit")
	return c
}

// inside reports whether path, which need not exist, is in the folder or is the folder.
func inside(folder, path string) bool {
	fi, err := os.Stat(folder)
	if err != nil {
		return false
	}
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if at, err := os.Stat(dir); err == nil && os.SameFile(fi, at) {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

func makeBackup(a *verb.App, cmd *cobra.Command, to string, keys bool, wait time.Duration) error {
	// Copy the log before the streams. Then the streams may have entries that the log lacks, which the auditor of the
	// restored folder chains.
	var ans *auditor.Answer
	err := a.Operator(cmd.Context(), func(ctx context.Context, nc *nats.Conn) (err error) {
		ans, err = auditor.AskSnapshot(ctx, nc, datafolder.AuditDir(a.Conn.Data))
		return err
	})
	if err != nil {
		return fmt.Errorf("asking the auditor for a snapshot of its log: %w", err)
	}
	defer os.RemoveAll(ans.Dir) // removes nothing if the folder was moved to the backup
	return audit.Retention(a, cmd, wait, nil, audit.LogFlags{}, func(ctx context.Context, c *retain.Config) error {
		dir, left, err := c.Copy(ctx, keys)
		if err != nil {
			return err
		}
		err = backup.MoveFolder(ans.Dir, datafolder.AuditDir(dir))
		move := backup.MoveFolder
		if filepath.Ext(to) == ".tar" {
			move = backup.PackFolder
		}
		if err == nil {
			err = move(dir, to)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("moving the copy to %s: %w", to, err), os.RemoveAll(dir))
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s has the log up to leaf %d, root %s\n", to, ans.Size, ans.Root)
		for _, name := range left {
			fmt.Fprintf(cmd.OutOrStdout(), "not backed up: %s\n", verb.Quote(name, 300))
		}
		if len(left) > 0 {
			fmt.Fprintln(cmd.OutOrStdout(), "Copy these files of", a.Conn.Data, "yourself if you need them")
		}
		return nil
	})
}

func restoreCommand(a *verb.App) *cobra.Command {
	var keys string
	c := &cobra.Command{
		Use:   "restore {DIR | FILE.tar} --data FOLDER",
		Short: "Create a data folder from a backup",
		Long: `Create a data folder from a backup, which is a folder or an archive and stays unchanged. The data
folder must be new or empty. Then start lazaret up with it. Verify the log against a checkpoint from
outside: the log of a backup lacks the checkpoints that were signed after the backup.

Credentials stay revoked if the backup or the folder of --keys lists them as revoked. Credentials and
tokens that were revoked only after the backup have access again: revoke them again before you start lazaret up. A
backup without keys has no tokens: none is accepted after its restore, so make new ones.`,
		Example: "  lazaret restore /backup/2026-11-23 --keys /safe/keys --data ./restored\n  lazaret audit verify " +
			"--offline --data ./restored",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Conn.Resolve()
			m, err := backup.Restore(cmd.Context(), args[0], keys, a.Conn.Data)
			if err != nil {
				return err
			}
			_, err = os.Stat(token.ListFile(a.Conn.Data))
			sayRevoked(cmd.OutOrStdout(), m, err == nil)
			fmt.Fprintf(cmd.OutOrStdout(), "%s is restored: start it with lazaret up --data %[1]s\n"+
				"Never run it beside the original. If this is a drill, verify it with another state folder, such as "+
				"XDG_STATE_HOME=/tmp/drill: otherwise the next verification of the original on this machine fails\n", a.Conn.Data)
			list := backup.RestoredWitnesses(a.Conn.Data)
			if _, err := os.Stat(list); err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "The restored log asks no witness: a witness that cosigns it refuses the original "+
					"from then on. If the restored pipeline replaces the original, rename %s to %s before the start\n", list,
					filepath.Base(datafolder.WitnessPolicy(a.Conn.Data)))
			}
			return nil
		},
	}
	c.Flags().StringVar(&keys, "keys", "", "`FOLDER` with the keys: required if the backup has none; credentials that "+
		"are revoked in this folder stay revoked")
	return c
}

// sayRevoked prints the time up to which a restored data folder knows the revocations of credentials. tokens says
// whether it has the tokens.
func sayRevoked(w io.Writer, m *natsserver.Merged, tokens bool) {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "none"
		}
		return t.Format(time.RFC3339)
	}
	fmt.Fprintf(w, "newest credential: %s; newest revocation: %s; %d credentials are revoked\n",
		at(m.Issued), at(m.Revoked), m.Count)
	if m.Made.IsZero() {
		fmt.Fprintln(w, "the backup is of an earlier version and has no list of credentials: those that were revoked "+
			"after the copy of the keys was made have access again. Revoke them before the start: lazaret agent revoke")
		return
	}
	known := m.Made // unless the folder of --keys knows later revocations
	for _, t := range []time.Time{m.Issued, m.Revoked} {
		if t.After(known) {
			known = t
		}
	}
	fmt.Fprintf(w, "credentials that were revoked after %s have access again. Revoke them before the start: "+
		"lazaret agent revoke\n", at(known))
	if tokens {
		fmt.Fprintf(w, "tokens that were revoked after the backup, %s, have access again. Revoke them before the start: "+
			"lazaret agent token revoke\n", at(m.Made))
		return
	}
	fmt.Fprintln(w, "the backup has no credential files and no tokens, so no token is accepted anymore. Agents that "+
		"connect to NATS keep their own files. For each agent that uses HTTP: lazaret agent add, lazaret agent token new")
}
