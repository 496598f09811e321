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
	"github.com/courierhq/courier/internal/test/pgptest"
	"github.com/courierhq/courier/steps/pgp"
)

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
	stranger := pgptest.NewEntity(t, "stranger", nil)
	expired := pgptest.NewEntity(t, "expired", func(c *packet.Config) { c.Time, c.KeyLifetimeSecs = pgptest.Past(48*time.Hour), 3600 })
	b.add("expired", expired)
	revoked, retired := pgptest.NewEntity(t, "revoked", nil), pgptest.NewEntity(t, "retired", func(c *packet.Config) { c.Time = pgptest.Past(48 * time.Hour) })
	byRevoked, byRetired := pgptest.SignedBy(t, us, nil, revoked), pgptest.SignedBy(t, us, pgptest.Past(24*time.Hour), retired)
	if err := errors.Join(revoked.Revoke(packet.KeyCompromised, "", nil), retired.Revoke(packet.KeyRetired, "", nil)); err != nil {
		t.Fatal(err)
	}
	b.add("revoked", revoked)
	b.add("retired", retired)
	weak := b.add("weak", pgptest.SHA1Key(t))
	sub := pgptest.NewEntity(t, "sub", nil)
	if err := sub.AddSigningSubkey(&packet.Config{Algorithm: packet.PubKeyAlgoEdDSA}); err != nil {
		t.Fatal(err)
	}
	bySub := pgptest.SignedBy(t, us, nil, sub)
	b.add("sub", sub)
	gone := pgptest.NewEntity(t, "gone", nil)
	if err := gone.AddSigningSubkey(&packet.Config{Algorithm: packet.PubKeyAlgoEdDSA}); err != nil {
		t.Fatal(err)
	}
	byGone := pgptest.SignedBy(t, us, nil, gone)
	if err := gone.Subkeys[1].Revoke(packet.KeyRetired, "", nil); err != nil {
		t.Fatal(err)
	}
	b.add("gone", gone)

	const pass = ""
	return []signatureCase{
		{"valid", pgptest.SignedBy(t, us, nil, partner), nil, pass, pass, pgp.StatusValid, partner},
		{"valid, listed", pgptest.SignedBy(t, us, nil, partner), []string{"partner"}, pass, pass, pgp.StatusValid, partner},
		{"valid, listed among others", pgptest.SignedBy(t, us, nil, partner), []string{"other", pgptest.Fingerprint(partner)}, pass, pass, pgp.StatusValid, partner},
		{"by ourselves", pgptest.SignedBy(t, us, nil, us), nil, pass, pass, pgp.StatusValid, us},
		{"by ourselves, not listed", pgptest.SignedBy(t, us, nil, us), []string{"partner"}, pass, "which is not among signer_key_ids (partner)", pgp.StatusUnknownSigner, nil},
		{"by a subkey", bySub, []string{"sub"}, pass, pass, pgp.StatusValid, sub},
		{"unsigned", pgptest.SignedBy(t, us, nil), nil, pass, "it is not signed", pgp.StatusUnsigned, nil},
		{"unsigned, listed", pgptest.SignedBy(t, us, nil), []string{"partner"}, pass, "it is not signed", pgp.StatusUnsigned, nil},
		{"other signer", pgptest.SignedBy(t, us, nil, other), []string{"partner"}, pass, fmt.Sprintf("signed by the key id %016X", other.PrimaryKey.KeyId), pgp.StatusUnknownSigner, nil},
		{"stranger", pgptest.SignedBy(t, us, nil, stranger), nil, pass, "which is not among the keys that are there", pgp.StatusUnknownSigner, nil},
		{"expired since", pgptest.SignedBy(t, us, pgptest.Past(47*time.Hour+30*time.Minute), expired), nil, pass, `key "` + fmt.Sprintf("%016X", expired.PrimaryKey.KeyId) + `" (` + pgptest.Fingerprint(expired) + ") expired on ", pgp.StatusExpiredKey, nil},
		{"revoked", byRevoked, []string{"revoked"}, pass, `key "revoked" (` + pgptest.Fingerprint(revoked) + ") is revoked", pgp.StatusRevokedKey, nil},
		{"retired since", byRetired, []string{"retired"}, pass, `key "retired" (` + pgptest.Fingerprint(retired) + ") is revoked", pgp.StatusRevokedKey, nil},
		{"subkey retired since", byGone, []string{"gone"}, pass, "its subkey ", pgp.StatusRevokedKey, nil},
		{"SHA-1 key", pgptest.SignedBy(t, us, nil, weak), []string{"weak"}, pass, "is held together by SHA-1", pgp.StatusUnsafe, nil},
		{"two signers", pgptest.SignedBy(t, us, nil, partner, other), nil, pass, pass, pgp.StatusValid, other},
		{"two signers, one listed", pgptest.SignedBy(t, us, nil, partner, other), []string{"partner"}, pass, pass, pgp.StatusValid, partner},
		{"two signers, one known", pgptest.SignedBy(t, us, nil, stranger, partner), nil, pass, pass, pgp.StatusValid, partner},
		{"forged", pgptest.SignedBy(t, us, nil, pgptest.Forgery(partner)), []string{"partner"}, "does not fit the content", "does not fit the content", "", nil},
		{"from tomorrow", pgptest.SignedBy(t, us, pgptest.Past(-24*time.Hour), partner), nil, "is no longer or not yet valid", "is no longer or not yet valid", "", nil},
		{"clock ahead", pgptest.SignedBy(t, us, pgptest.Past(-2*time.Minute), partner), nil, pass, pass, pgp.StatusValid, partner},
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
				if by := c.by; by != nil && verify != "off" && (out.SignerFingerprint != pgptest.Fingerprint(by) || out.SignedAt == nil) {
					t.Errorf("verify %q: %+v, want %s", verify, out, pgptest.Fingerprint(by))
				}
				if (c.by == nil || verify == "off") && (out.SignerFingerprint != "" || out.SignedAt != nil || out.SignerFingerprints != nil) {
					t.Errorf("verify %q: %+v, want no signer", verify, out)
				}
				b.remove("final")
			}
		})
	}
}

func TestTwoSignersAreListed(t *testing.T) {
	b := newBench(t)
	us, one, two := b.key("us"), b.key("one"), b.key("two")
	b.write("in.pgp", pgptest.SignedBy(t, us, nil, one, two))
	out, err := b.decrypt(map[string]any{"source_path": "in.pgp", "verify": "required"})
	if err != nil || len(out.SignerFingerprints) != 2 || out.SignerFingerprints[0] != out.SignerFingerprint {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestVerifyValues(t *testing.T) {
	b := newBench(t)
	b.key("us")
	_, err := b.decrypt(map[string]any{"source_path": "in.pgp", "verify": "always"})
	wantFailure(t, err, `verify: "always" is not one of the possible values`)
	for name, want := range map[string]string{"expired": "expired on ", "nobody": "there is no key", "us": ""} {
		if name == "expired" {
			b.add(name, pgptest.NewEntity(t, name, func(c *packet.Config) { c.Time, c.KeyLifetimeSecs = pgptest.Past(48*time.Hour), 3600 }))
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
	b.write("in.pgp", pgptest.SignedBy(t, us, nil, partner))
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
	b.write("in.pgp", pgptest.SignedBy(t, us, nil, us))
	var kept courier.Resources
	typ, _ := b.reg.Lookup("pgp.decrypt")
	for i := range 5 {
		job := courier.NewContext(courier.ContextConfig{Execution: "e", Iteration: []int{i}, Workspace: b.dir, Resources: &kept})
		defer job.Close()
		if _, err := typ.Execute(t.Context(), job, mustJSON(t, map[string]any{"source_path": "in.pgp", "private_key_ids": []string{"us"}, "signer_key_ids": []string{pgptest.Fingerprint(us)}})); err != nil {
			t.Fatal(err)
		}
	}
	if err := kept.Close(); err != nil {
		t.Error(err)
	}
	if len(asked.times) != 2 || asked.times["us"] != 1 || asked.times[pgptest.Fingerprint(us)] != 1 {
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
