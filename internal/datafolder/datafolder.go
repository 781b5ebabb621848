package datafolder

import (
	"path/filepath"

	"lazaret/internal/natsserver"
	"lazaret/pkg/keys"
)

// StateDir returns the folder of a stage's cache.
func StateDir(data, stage string) string { return filepath.Join(data, "state", stage) }

// AuditDir returns the folder of the auditor's log.
func AuditDir(data string) string { return filepath.Join(data, "audit") }

// TrustFile returns the path of the pinned keys.
func TrustFile(data string) string { return filepath.Join(data, keys.TrustFile) }

// WitnessPolicy returns the path of the list of witnesses whose cosignatures the auditor requests.
func WitnessPolicy(data string) string { return filepath.Join(data, "witnesses.policy") }

// OperatorKey returns the path of the operator's key, which the first start creates.
func OperatorKey(data string) string { return filepath.Join(natsserver.KeysDir(data), "operator.key") }

// AuditorKey returns the path of the key that signs checkpoints, which the first start creates.
func AuditorKey(data string) string { return filepath.Join(natsserver.KeysDir(data), "auditor.key") }

// StateKeyFile returns the path of the key that encrypts the state of the stages. The key is outside the state's
// folder.
func StateKeyFile(data string) string { return filepath.Join(natsserver.KeysDir(data), stateKey) }

const stateKey = "state.key"

// MasterKeyFile returns the path of the key that encrypts the auditor's payload keys.
func MasterKeyFile(data string) string { return filepath.Join(natsserver.KeysDir(data), masterKey) }

const masterKey = "audit-master.key"
