package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lazaret/internal/natsfiles"
	"lazaret/internal/natsserver"
	"lazaret/pkg/durable"
	"lazaret/pkg/keys"

	shipped "lazaret/rules"
)

// Parts are the names of the processes for which Part can create a folder.
var Parts = []string{"ingest", "sentinels", "arbiter", "auditor", "trim"}

// PartFiles returns the paths, relative to the data folder, of the files that a process needs. groups
// are the sentinel groups; nil means the shipped ones.
func PartFiles(name string, groups []string) ([]string, error) {
	var roles []natsserver.Role
	files := []string{keys.TrustFile}
	key := func(path string) { files = append(files, filepath.ToSlash(path)) }
	switch name {
	case "ingest":
		roles = []natsserver.Role{natsserver.RoleIngest, natsserver.RoleService}
		key(StateKeyFile(""))
	case "sentinels":
		if groups == nil {
			groups = shipped.Groups()
		}
		for _, g := range groups {
			roles = append(roles, natsserver.SentinelRole(g))
		}
		key(StateKeyFile(""))
	case "arbiter":
		roles = []natsserver.Role{natsserver.RoleArbiter, natsserver.RoleFront, natsserver.RoleService}
		key(StateKeyFile(""))
	case "auditor":
		roles = []natsserver.Role{natsserver.RoleAuditor, natsserver.RoleService}
		key(AuditorKey(""))
		key(filepath.Join(natsserver.KeysDir(""), masterKeyFile))
	case "trim":
		// The operator's credential is needed to request a snapshot of the log from the running
		// auditor.
		roles = []natsserver.Role{natsserver.RoleRetention, natsserver.RoleOperator}
		key(filepath.Join(natsserver.KeysDir(""), masterKeyFile))
	default:
		return nil, fmt.Errorf("there is no part for %q: use one of %s", name, strings.Join(Parts, ", "))
	}
	for _, r := range roles {
		key(natsfiles.Creds("", string(r)))
		key(natsfiles.Context("", string(r)))
	}
	slices.Sort(files)
	return files, nil
}

// Part copies the files that a process needs from a data folder to dir. at is the path of dir on the process's
// host; the copied contexts refer to credentials there. If url is not empty, it replaces the servers' address in
// the contexts. Part can be repeated when credentials are renewed. It keeps keys and handovers in dir that the
// data folder lacks; kept has a line about each.
func Part(data, name string, groups []string, dir, at, url string) (kept []string, err error) {
	files, err := PartFiles(name, groups)
	if err != nil {
		return nil, err
	}
	content := make(map[string][]byte)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(data, f))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the data folder has no %s, which %s needs: make it with `lazaret server init` or start "+
				"`lazaret up` once: %w", f, name, err)
		} else if err != nil {
			return nil, err
		}
		if filepath.Ext(f) == ".json" {
			if b, err = moved(b, at, url); err != nil {
				return nil, fmt.Errorf("%s: %w", f, err)
			}
		}
		content[f] = b
	}
	p := part{data: data, dir: dir}
	trust, err := p.merge(content[keys.TrustFile])
	if err != nil {
		return nil, err
	}
	content[keys.TrustFile] = trust
	for _, f := range files {
		to := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return nil, err
		}
		put := durable.WriteFile
		if filepath.Dir(f) == natsserver.KeysDir("") {
			put = p.putKey
		}
		if err := put(to, content[f], 0o600); err != nil {
			return nil, err
		}
	}
	return p.kept, nil
}

// moved returns a NATS context with its credential path below another folder.
func moved(context []byte, at, url string) ([]byte, error) {
	var c map[string]any
	if err := json.Unmarshal(context, &c); err != nil {
		return nil, err
	}
	creds, _ := c["creds"].(string)
	if creds == "" {
		return nil, errors.New("the context names no credential file (creds)")
	}
	c["creds"] = natsfiles.Creds(at, strings.TrimSuffix(filepath.Base(creds), ".creds"))
	if url != "" {
		c["url"] = url
	}
	return json.MarshalIndent(c, "", "  ")
}
