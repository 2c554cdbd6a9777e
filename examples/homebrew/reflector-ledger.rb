# For a tap: `brew install OWNER/TAP/reflector-ledger`. A release fills in where its sdist is, and its hash.
class ReflectorLedger < Formula
  include Language::Python::Virtualenv

  desc "See which rules of your CLAUDE.md your coding agent breaks, and which rules help"
  url "@URL@"
  sha256 "@SHA256@"
  license "MIT"

  depends_on "python@3.13"

  def install
    virtualenv_create(libexec, "python3.13")
    system libexec/"bin/python", "-m", "pip", "install", "--no-cache-dir", buildpath
    bin.install_symlink libexec/"bin/reflector", libexec/"bin/reflector-ledger"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/reflector --version")
    assert_match "pat-001", shell_output("#{bin}/reflector demo")
  end
end
