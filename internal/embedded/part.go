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

// Parts are the processes for each of which Part makes a folder of its own.
var Parts = []string{"ingest", "sentinels", "arbiter", "auditor", "trim"}

// PartFiles returns the files of a data folder that a process needs, by path within it.
// groups are the sentinel groups; nil stands for the shipped ones.
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
		// The operator's credential asks the auditor at work for a snapshot of its log.
		roles = []natsserver.Role{natsserver.RoleRetention, natsserver.RoleOperator}
		key(filepath.Join(natsserver.KeysDir(""), masterKeyFile))
	default:
		return nil, fmt.Errorf("%q is no process that has a part of its own: they are %s", name, strings.Join(Parts, ", "))
	}
	for _, r := range roles {
		key(natsfiles.Creds("", string(r)))
		key(natsfiles.Context("", string(r)))
	}
	slices.Sort(files)
	return files, nil
}

// Part copies the files that a process needs of a data folder into dir. Contexts name the
// credentials where they are under at, and the servers at url unless it is empty. It may be
// made again when credentials are renewed.
func Part(data, name string, groups []string, dir, at, url string) error {
	files, err := PartFiles(name, groups)
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(data, f))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the data folder has no %s, which %s needs: make it with `lazaret server init` or start "+
				"`lazaret up` once: %w", f, name, err)
		} else if err != nil {
			return err
		}
		if filepath.Ext(f) == ".json" {
			if b, err = moved(b, at, url); err != nil {
				return fmt.Errorf("%s: %w", f, err)
			}
		}
		to := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := durable.WriteFile(to, b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// moved is a NATS context whose credential is under another folder.
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
