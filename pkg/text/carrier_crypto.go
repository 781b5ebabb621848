package text

import (
	"crypto/sha256"
	"strings"
)

// Crypto is the address of a cryptocurrency.
const Crypto Kind = "crypto"

func init() {
	register(Crypto, Traits{Distinctive: true, ReachesOut: true, Pushed: true, Party: true}, 26, crypto)
}

// crypto returns the canonical form of a token that is an address of Ethereum, Bitcoin or Litecoin.
func crypto(tok string) (string, bool) {
	tok = strings.Trim(tok, ".:-+")
	n := len(tok)
	switch {
	case n == 42 && strings.HasPrefix(tok, "0x") && isHex(tok[2:]):
		return strings.ToLower(tok), true
	case n >= 42 && n <= 62 && bech32(tok):
		return strings.ToLower(tok), true
	case n >= 26 && n <= 35 && base58Check(tok):
		return tok, true
	}
	return "", false
}

const bech32Alphabet = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"

// bech32 reports whether the checksum of a segwit address is right (BIP 173 or BIP 350).
func bech32(tok string) bool {
	tok = strings.ToLower(tok)
	sep := strings.LastIndexByte(tok, '1')
	if sep < 1 || tok[:sep] != "bc" && tok[:sep] != "tb" && tok[:sep] != "ltc" {
		return false
	}
	chk := uint32(1)
	step := func(v byte) {
		top := chk >> 25
		chk = chk&0x1ffffff<<5 ^ uint32(v)
		for i, g := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				chk ^= g
			}
		}
	}
	for i := range sep {
		step(tok[i] >> 5)
	}
	step(0)
	for i := range sep {
		step(tok[i] & 31)
	}
	for i := sep + 1; i < len(tok); i++ {
		v := strings.IndexByte(bech32Alphabet, tok[i])
		if v < 0 {
			return false
		}
		step(byte(v))
	}
	return chk == 1 || chk == 0x2bc830a3
}

const base58Alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// base58Check reports whether the checksum of an address of 25 bytes is right. The last four bytes are the checksum:
// the first bytes of the double SHA-256 of the other bytes.
func base58Check(tok string) bool {
	var raw [25]byte
	for i := range len(tok) {
		carry := strings.IndexByte(base58Alphabet, tok[i])
		if carry < 0 {
			return false
		}
		for j := len(raw) - 1; j >= 0; j-- {
			carry += int(raw[j]) * 58
			raw[j] = byte(carry)
			carry >>= 8
		}
		if carry != 0 {
			return false
		}
	}
	sum := sha256.Sum256(raw[:21])
	sum = sha256.Sum256(sum[:])
	return [4]byte(sum[:4]) == [4]byte(raw[21:])
}
