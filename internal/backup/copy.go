package backup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lazaret/internal/datafolder"
	"lazaret/internal/natsserver"
	"lazaret/internal/stage"
	"lazaret/pkg/files"
	"lazaret/pkg/keys"
)

// made are the files and folders of a data folder that a backup without keys has, besides the auditor's log and the
// snapshots of the stages. Lazaret writes them, and a restore uses them.
var made = []string{"jetstream", "memories", "hooks", "notify", "forgotten", "shards", keys.TrustFile,
	filepath.Base(datafolder.WitnessPolicy(""))}

// secretFolders are the folders of keys, credentials and logins. Only a backup with keys has them.
var secretFolders = []string{"keys", "creds", "nats", "console"}

// copier copies the parts of a data folder that belong to a backup.
type copier struct {
	data, to string
	keys     bool
	// left and others are relative paths of the files and folders that were not copied: left of those below the folders
	// in made and below state, others of the user's own. Each has at most maxLeft paths.
	left, others []string
	more         int // number of files and folders beyond maxLeft
}

const (
	maxLeft = 100
	sep     = string(filepath.Separator)
)

// streamsDir is the folder in which nats-server writes the streams.
var streamsDir = filepath.Join("jetstream", "jetstream")

// Copy copies the parts of a data folder that belong to a backup, except the auditor's log. With keys, it copies
// the user's own files too. It returns the files and folders in data that it did not copy and that nobody can rebuild.
func Copy(data, to string, withKeys bool) (left []string, err error) {
	es, err := os.ReadDir(data)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, err
	}
	c := &copier{data: data, to: to, keys: withKeys}
	for _, e := range es {
		name := e.Name()
		switch {
		case slices.Contains([]string{"lock", "audit", "snapshots", filepath.Base(CopiesDir(""))}, name):
		case name == "state":
			err = c.snapshots()
		case slices.Contains(made, name) || withKeys && slices.Contains(secretFolders, name):
			err = c.tree(name)
		case slices.Contains(secretFolders, name):
		case withKeys && e.Type()&fs.ModeSymlink == 0:
			err = c.tree(name)
		default:
			c.leave(name, e.IsDir())
		}
		if err != nil {
			return nil, fmt.Errorf("copying %s: %w", name, err)
		}
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := natsserver.CopyRegister(data, to); err != nil {
		return nil, err
	}
	return c.notCopied(), secure(to)
}

// CheckSnapshots returns an error if to, a copy of a data folder whose ledger was trimmed, lacks the state of one
// of the stages: that stage could not start with the copy. It opens the copied snapshots, because a stage may have
// replaced its snapshot while it was copied.
func CheckSnapshots(data, to string, stages []string, trimmed uint64) error {
	for _, name := range stages {
		key, err := datafolder.StateKey(datafolder.StateKeyFile(data), name)
		if err != nil {
			return err
		}
		snapshot := stage.SnapshotDir(datafolder.StateDir(to, name))
		folded := uint64(0)
		if _, err = os.Stat(snapshot); err == nil {
			folded, err = stage.Snapshotted(snapshot, key)
		}
		if err == nil && folded < trimmed {
			err = fmt.Errorf("its snapshot has the state up to ledger entry %d", folded)
		}
		if err != nil {
			return fmt.Errorf("the ledger was trimmed up to %d, and the copy lacks the state of stage %s, which could not "+
				"start without it: back up again; if that fails too, start lazaret up again, which makes the snapshot %s, "+
				"and then back up: %w", trimmed, name, stage.SnapshotDir(datafolder.StateDir(data, name)), err)
		}
	}
	return nil
}

// check returns an error if the copy lacks something that a restore needs.
func (c *copier) check() error {
	needed := []string{"jetstream", keys.TrustFile}
	if c.keys {
		needed = append(needed, "keys")
	}
	for _, name := range needed {
		if _, err := os.Lstat(filepath.Join(c.data, name)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, err := os.Stat(filepath.Join(c.to, name)); err != nil {
			return fmt.Errorf("%s was not copied, and the backup is useless without it. It must be a file or folder, or a "+
				"link to one, and with --without-keys it must contain no private key: %w", filepath.Join(c.data, name), err)
		}
	}
	return nil
}

// leave notes a file or folder that is not copied.
func (c *copier) leave(name string, dir bool) {
	name = filepath.ToSlash(name)
	list := &c.others
	if top, _, _ := strings.Cut(name, "/"); top == "state" || slices.Contains(made, top) {
		list = &c.left
	}
	if len(*list) == maxLeft {
		c.more++
		return
	}
	if dir {
		name += "/"
	}
	*list = append(*list, name)
}

// notCopied returns at most maxLeft of the files and folders that were not copied, and the number of the others. Those
// that Lazaret made come before the user's own.
func (c *copier) notCopied() []string {
	left := slices.Concat(c.left, c.others)
	if over := len(left) - maxLeft; over > 0 {
		left, c.more = left[:maxLeft], c.more+over
	}
	if c.more > 0 {
		left = append(left, fmt.Sprintf("and %d more", c.more))
	}
	return left
}

// snapshots copies the snapshots of the stages' state that were made for a trim of the ledger.
func (c *copier) snapshots() error {
	dirs, err := files.Glob(datafolder.StateDir(c.data, ""), "*"+snapshotSuffix)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if err := c.tree(datafolder.StateDir("", filepath.Base(d))); err != nil {
			return err
		}
	}
	return nil
}

// tree copies a file, or a folder with its contents. If name is a link, it copies the target. It follows no other link.
func (c *copier) tree(name string) error {
	top, err := filepath.EvalSymlinks(filepath.Join(c.data, name))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(filepath.Join(c.data, name)); err == nil {
			c.leave(name, false) // a link to nothing
		}
		return nil
	}
	if err != nil {
		return err
	}
	return filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it was removed meanwhile, for example by a hook
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		rel = filepath.Join(name, rel)
		switch {
		case e.IsDir() && !c.keys && filepath.Dir(rel) == "jetstream" && rel != streamsDir:
			c.leave(rel, true) // nats-server writes no other folder there
			return fs.SkipDir
		case e.IsDir():
			return os.MkdirAll(filepath.Join(c.to, rel), 0o700)
		case !e.Type().IsRegular() && strings.HasPrefix(rel+sep, streamsDir+sep):
			return fmt.Errorf("%s is a link or a special file, so the copy would lack streams: replace it by the files "+
				"themselves, or make the whole folder %s a link", path, filepath.Join(c.data, "jetstream"))
		case !e.Type().IsRegular():
			c.leave(rel, false)
			return nil
		}
		return c.file(rel)
	})
}

func (c *copier) file(rel string) (err error) {
	f, err := os.Open(filepath.Join(c.data, rel))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if !c.keys {
		secret, err := isSecret(rel, f)
		if err != nil {
			return err
		}
		if secret {
			c.leave(rel, false)
			return nil
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	to, err := os.OpenFile(filepath.Join(c.to, rel), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, f)
	return errors.Join(err, to.Close())
}

var (
	// safe are the paths of files that a backup without keys has and that are not searched for secrets. The files of
	// nats-server, the tables of a snapshot and shards are encrypted or compressed. The files of the memory tool and of
	// hooks are the user's data. Agents choose their names and contents, so a search would leave memories out. Records
	// and reminders contain names of projects, persons and sessions, which also may look like a token.
	safe = regexp.MustCompile(`(?s)^(jetstream/jetstream/.*/(meta\.(inf|sum|key)|[0-9]+\.(blk|key)|index\.db)` +
		`|state/.*\.sst|(memories|hooks)/.*|forgotten/[^/]*\.note|shards/([^/]*\.zip|sealed)` +
		`|notify/(acks|dead(\.1)?|reminders-[^/]*)\.jsonl?(\.lock)?)$`)
	// foreign are paths in folders of Lazaret's own files. Lazaret writes no other files there than those that safe
	// matches, so any other file counts as a secret.
	foreign    = regexp.MustCompile(`^(forgotten|shards|notify)/`)
	secretName = regexp.MustCompile(`(?i)\.(key|nk|creds|token|pem|p12|pfx|seed)([.~_-].*)?$|^\.env`)
	secretText = regexp.MustCompile(`PRIVATE\+KEY\+|-----BEGIN [A-Z0-9 ]*(PRIVATE KEY|SEED)|lzt_[A-Za-z0-9_-]{16}` +
		`|\bS[UAOCNX][A-Z2-7]{56}\b`)
)

// isSecret reports whether a file may contain a private key, a seed, a token or another secret, by its path or its
// text. rel is its path in the data folder.
func isSecret(rel string, r io.Reader) (bool, error) {
	path := filepath.ToSlash(rel)
	if safe.MatchString(path) {
		return false, nil
	}
	if foreign.MatchString(path) || secretName.MatchString(filepath.Base(rel)) {
		return true, nil
	}
	const overlap = 256 // end of a read that is searched again with the next one: a secret may span both
	b := make([]byte, 1<<20)
	for kept := 0; ; {
		n, err := io.ReadFull(r, b[kept:])
		if secretText.Match(b[:kept+n]) {
			return true, nil
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		kept = copy(b, b[len(b)-overlap:])
	}
}
