#include "common/peers/peers.hpp"

#include <algorithm>

#include "common/error.hpp"
#include "common/peers/peer.hpp"

namespace gemm {
namespace {

std::vector<Peer> all_peers(Device device) {
  if (device == Device::cpu) return cpu_peers();
#ifdef GEMM_HAVE_CUDA
  if (device == Device::gpu) return gpu_peers();
#endif
  return {};
}

// Those that a step can be compared with: of fp32 operands there is no BF16 form.
std::vector<Peer> peers_of(Device device, Element operands) {
  std::vector<Peer> peers = all_peers(device);
  if (operands == Element::fp32)
    std::erase_if(peers, [](const Peer& peer) { return peer.operands != Element::fp32; });
  return peers;
}

std::string known(const std::vector<Peer>& peers) {
  std::string names;
  for (const Peer& peer : peers) names += peer.name + ", ";
  return names + "none";
}

}  // namespace

std::vector<Kernel> find_peers(Device device, const std::vector<std::string>& names, int threads,
                               Element operands) {
  const std::vector<Peer> peers = peers_of(device, operands);
  std::vector<Kernel> kernels;
  if (names.empty())
    for (const Peer& peer : peers)
      if (peer.operands == operands && kernels.empty())
        if (auto kernel = peer.open(threads)) kernels.push_back(*kernel);

  for (auto at = names.begin(); at != names.end(); ++at) {
    const std::string& name = *at;
    const bool again = std::find(names.begin(), at, name) != at;
    if (name == "none" || again) continue;
    const auto peer = std::find_if(peers.begin(), peers.end(),
                                   [&](const Peer& candidate) { return candidate.name == name; });
    if (peer == peers.end())
      throw Refusal(Exit::bad_usage, "this step has no peer " + name + ": use " + known(peers));
    auto kernel = peer->open(threads);
    if (!kernel)
      throw Refusal(Exit::unsupported,
                    name + " is not installed: " + peer->how_to_get + ", or use --peer none");
    kernels.push_back(*kernel);
  }
  return kernels;
}

}  // namespace gemm
