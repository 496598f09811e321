package pgp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp/packet"
	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/pgp"
)

// signedBy makes a message to a key, signed by others at a time.
func signedBy(t testing.TB, to *openpgp.Entity, at func() time.Time, signers ...*openpgp.Entity) []byte {
	t.Helper()
	now := time.Now()
	return seal(t, []byte("signed content"), to, &openpgp.EncryptParams{
		Signers: signers, EncryptionTime: &now,
		Config: &packet.Config{DefaultCipher: packet.CipherAES256, Time: at},
	})
}

// A signatureCase is a message and what is to be found out about it.
type signatureCase struct {
	name               string
	message            []byte
	signers            []string
	optional, required string // what the failure says; empty if there is none
	status             pgp.VerifyStatus
	by                 *openpgp.Entity
}

// signatureCases go through who may have signed, with what kind of key.
func signatureCases(t *testing.T, b *bench) []signatureCase {
	us := b.key("us")
	partner, other := b.key("partner"), b.key("other")
	stranger := newEntity(t, "stranger", nil)
	expired := newEntity(t, "expired", func(c *packet.Config) { c.Time, c.KeyLifetimeSecs = past(48*time.Hour), 3600 })
	b.add("expired", expired)
	revoked, retired := newEntity(t, "revoked", nil), newEntity(t, "retired", func(c *packet.Config) { c.Time = past(48 * time.Hour) })
	byRevoked, byRetired := signedBy(t, us, nil, revoked), signedBy(t, us, past(24*time.Hour), retired)
	if err := errors.Join(revoked.Revoke(packet.KeyCompromised, "", nil), retired.Revoke(packet.KeyRetired, "", nil)); err != nil {
		t.Fatal(err)
	}
	b.add("revoked", revoked)
	b.add("retired", retired)
	weak := b.add("weak", sha1Key(t))
	sub := newEntity(t, "sub", nil)
	if err := sub.AddSigningSubkey(&packet.Config{Algorithm: packet.PubKeyAlgoEdDSA}); err != nil {
		t.Fatal(err)
	}
	bySub := signedBy(t, us, nil, sub)
	b.add("sub", sub)
	gone := newEntity(t, "gone", nil)
	if err := gone.AddSigningSubkey(&packet.Config{Algorithm: packet.PubKeyAlgoEdDSA}); err != nil {
		t.Fatal(err)
	}
	byGone := signedBy(t, us, nil, gone)
	if err := gone.Subkeys[1].Revoke(packet.KeyRetired, "", nil); err != nil {
		t.Fatal(err)
	}
	b.add("gone", gone)

	const pass = ""
	return []signatureCase{
		{"valid", signedBy(t, us, nil, partner), nil, pass, pass, pgp.StatusValid, partner},
		{"valid, listed", signedBy(t, us, nil, partner), []string{"partner"}, pass, pass, pgp.StatusValid, partner},
		{"valid, listed among others", signedBy(t, us, nil, partner), []string{"other", fpr(partner)}, pass, pass, pgp.StatusValid, partner},
		{"by ourselves", signedBy(t, us, nil, us), nil, pass, pass, pgp.StatusValid, us},
		{"by ourselves, not listed", signedBy(t, us, nil, us), []string{"partner"}, pass, "which is not among signer_key_ids (partner)", pgp.StatusUnknownSigner, nil},
		{"by a subkey", bySub, []string{"sub"}, pass, pass, pgp.StatusValid, sub},
		{"unsigned", signedBy(t, us, nil), nil, pass, "it is not signed", pgp.StatusUnsigned, nil},
		{"unsigned, listed", signedBy(t, us, nil), []string{"partner"}, pass, "it is not signed", pgp.StatusUnsigned, nil},
		{"other signer", signedBy(t, us, nil, other), []string{"partner"}, pass, fmt.Sprintf("signed by the key id %016X", other.PrimaryKey.KeyId), pgp.StatusUnknownSigner, nil},
		{"stranger", signedBy(t, us, nil, stranger), nil, pass, "which is not among the keys that are there", pgp.StatusUnknownSigner, nil},
		{"expired since", signedBy(t, us, past(47*time.Hour+30*time.Minute), expired), nil, pass, `key "` + fmt.Sprintf("%016X", expired.PrimaryKey.KeyId) + `" (` + fpr(expired) + ") expired on ", pgp.StatusExpiredKey, nil},
		{"revoked", byRevoked, []string{"revoked"}, pass, `key "revoked" (` + fpr(revoked) + ") is revoked", pgp.StatusRevokedKey, nil},
		{"retired since", byRetired, []string{"retired"}, pass, `key "retired" (` + fpr(retired) + ") is revoked", pgp.StatusRevokedKey, nil},
		{"subkey retired since", byGone, []string{"gone"}, pass, "its subkey ", pgp.StatusRevokedKey, nil},
		{"SHA-1 key", signedBy(t, us, nil, weak), []string{"weak"}, pass, "is held together by SHA-1", pgp.StatusUnsafe, nil},
		{"two signers", signedBy(t, us, nil, partner, other), nil, pass, pass, pgp.StatusValid, other},
		{"two signers, one listed", signedBy(t, us, nil, partner, other), []string{"partner"}, pass, pass, pgp.StatusValid, partner},
		{"two signers, one known", signedBy(t, us, nil, stranger, partner), nil, pass, pass, pgp.StatusValid, partner},
		{"forged", signedBy(t, us, nil, forgery(partner)), []string{"partner"}, "does not fit the content", "does not fit the content", "", nil},
		{"from tomorrow", signedBy(t, us, past(-24*time.Hour), partner), nil, "is no longer or not yet valid", "is no longer or not yet valid", "", nil},
		{"clock ahead", signedBy(t, us, past(-2*time.Minute), partner), nil, pass, pass, pgp.StatusValid, partner},
	}
}

// TestSignatures asks for everything that can be asked for.
func TestSignatures(t *testing.T) {
	b := newBench(t)
	for _, c := range signatureCases(t, b) {
		t.Run(c.name, func(t *testing.T) {
			b.write("in.pgp", c.message)
			for _, verify := range []string{"", "off", "optional", "required"} {
				out, err := b.decrypt(map[string]any{"source_path": "in.pgp", "output_path": "final", "verify": verify, "signer_key_ids": c.signers})
				want, status := c.optional, c.status
				if verify == "required" || verify == "" && len(c.signers) > 0 {
					want = c.required
				}
				if verify == "off" {
					want, status = "", pgp.StatusNotChecked
				}
				if want != "" {
					wantFailure(t, err, want, "was decrypted, but not accepted", "nothing was written")
					b.wantFiles("in.pgp")
					continue
				}
				if err != nil {
					t.Errorf("verify %q: %v", verify, err)
					continue
				}
				if out.VerifyStatus != status {
					t.Errorf("verify %q: status = %q, want %q", verify, out.VerifyStatus, status)
				}
				if by := c.by; by != nil && verify != "off" && (out.SignerFingerprint != fpr(by) || out.SignedAt == nil) {
					t.Errorf("verify %q: %+v, want %s", verify, out, fpr(by))
				}
				if (c.by == nil || verify == "off") && (out.SignerFingerprint != "" || out.SignedAt != nil || out.SignerFingerprints != nil) {
					t.Errorf("verify %q: %+v, want no signer", verify, out)
				}
				b.remove("final")
			}
		})
	}
}

// forgery is a key of somebody else that claims the id of e.
func forgery(e *openpgp.Entity) *openpgp.Entity {
	f, err := openpgp.NewEntity("forged", "", "", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
	if err != nil {
		panic(err)
	}
	f.PrimaryKey.KeyId, f.PrimaryKey.Fingerprint = e.PrimaryKey.KeyId, e.PrimaryKey.Fingerprint
	f.PrivateKey.KeyId, f.PrivateKey.Fingerprint = e.PrimaryKey.KeyId, e.PrimaryKey.Fingerprint
	return f
}

func TestTwoSignersAreListed(t *testing.T) {
	b := newBench(t)
	us, one, two := b.key("us"), b.key("one"), b.key("two")
	b.write("in.pgp", signedBy(t, us, nil, one, two))
	out, err := b.decrypt(map[string]any{"source_path": "in.pgp", "verify": "required"})
	if err != nil || len(out.SignerFingerprints) != 2 || out.SignerFingerprints[0] != out.SignerFingerprint {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestVerifyValues(t *testing.T) {
	b := newBench(t)
	b.key("us")
	_, err := b.decrypt(map[string]any{"source_path": "in.pgp", "verify": "always"})
	wantFailure(t, err, `verify: "always" is none of the possible values`)
	for name, want := range map[string]string{"expired": "expired on ", "nobody": "there is no key", "us": ""} {
		if name == "expired" {
			b.add(name, newEntity(t, name, func(c *packet.Config) { c.Time, c.KeyLifetimeSecs = past(48*time.Hour), 3600 }))
		}
		err := b.validate("pgp.decrypt", map[string]any{"source_path": "in.pgp", "signer_key_ids": []string{name}})
		if want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		wantFailure(t, err, "signer: ", want)
	}
	b.write("in.pgp", nil)
	_, err = b.decrypt(map[string]any{"source_path": "in.pgp"})
	wantFailure(t, err, "is empty")
}

// brokenKeys is a vault that fails for some ids.
type brokenKeys struct {
	pgp.Keys
	bad string
}

func (k brokenKeys) Key(ctx context.Context, id string) (pgp.Key, error) {
	if strings.EqualFold(id, k.bad) {
		return pgp.Key{}, errors.New("the vault is shut")
	}
	return k.Keys.Key(ctx, id)
}

// TestVaultFails expects that trouble of the host is neither taken for an
// unknown key nor for something permanent.
func TestVaultFails(t *testing.T) {
	b := newBench(t)
	us, partner := b.key("us"), b.key("partner")
	b.write("in.pgp", signedBy(t, us, nil, partner))
	b.write("a.txt", nil)
	for _, bad := range []string{"partner", fmt.Sprintf("%016X", partner.PrimaryKey.KeyId), fmt.Sprintf("%016X", us.Subkeys[0].PublicKey.KeyId)} {
		b.reg = courier.Registry{}
		pgp.Register(&b.reg, brokenKeys{b.keys, bad})
		var err error
		if bad != "partner" {
			err = second(b.decrypt(map[string]any{"source_path": "in.pgp"}))
		} else {
			err = second(b.encrypt(map[string]any{"source_path": "a.txt", "recipient_key_ids": []string{"us", "partner"}}))
		}
		if err == nil || !strings.Contains(err.Error(), "the vault is shut") || courier.IsPermanent(err) {
			t.Errorf("%s: %v", bad, err)
		}
		b.wantFiles("a.txt", "in.pgp")
	}
}

// TestKeysAreAskedOnce is a loop over many files: the host's vault is asked for
// each key once.
func TestKeysAreAskedOnce(t *testing.T) {
	b := newBench(t)
	us := b.key("us")
	asked := &countedKeys{Keys: b.keys, times: map[string]int{}}
	b.reg = courier.Registry{}
	pgp.Register(&b.reg, asked)
	b.write("in.pgp", signedBy(t, us, nil, us))
	var kept courier.Resources
	typ, _ := b.reg.Lookup("pgp.decrypt")
	for i := range 5 {
		job := courier.NewContext(courier.ContextConfig{Execution: "e", Iteration: []int{i}, Workspace: b.dir, Resources: &kept})
		defer job.Close()
		if _, err := typ.Execute(t.Context(), job, mustJSON(t, map[string]any{"source_path": "in.pgp", "private_key_ids": []string{"us"}, "signer_key_ids": []string{fpr(us)}})); err != nil {
			t.Fatal(err)
		}
	}
	if err := kept.Close(); err != nil {
		t.Error(err)
	}
	if len(asked.times) != 2 || asked.times["us"] != 1 || asked.times[fpr(us)] != 1 {
		t.Errorf("asked for %v, want each once", asked.times)
	}
}

type countedKeys struct {
	pgp.Keys
	times map[string]int
}

func (k *countedKeys) Key(ctx context.Context, id string) (pgp.Key, error) {
	k.times[id]++
	return k.Keys.Key(ctx, id)
}
