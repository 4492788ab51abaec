#include "common/peers/peers.hpp"

#include <algorithm>

#include "common/error.hpp"
#include "common/peers/peer.hpp"

namespace gemm {
namespace {

std::vector<Peer> peers_of(Device device) {
  if (device == Device::cpu) return cpu_peers();
#ifdef GEMM_HAVE_CUDA
  if (device == Device::gpu) return gpu_peers();
#endif
  return {};
}

std::string known(const std::vector<Peer>& peers) {
  std::string names;
  for (const Peer& peer : peers) names += peer.name + ", ";
  return names + "none";
}

}  // namespace

std::vector<Kernel> find_peers(Device device, const std::vector<std::string>& names, int threads) {
  const std::vector<Peer> peers = peers_of(device);
  std::vector<Kernel> kernels;
  if (names.empty() && !peers.empty())
    if (auto kernel = peers.front().open(threads)) kernels.push_back(*kernel);

  for (auto at = names.begin(); at != names.end(); ++at) {
    const std::string& name = *at;
    const bool again = std::find(names.begin(), at, name) != at;
    if (name == "none" || again) continue;
    const auto peer = std::find_if(peers.begin(), peers.end(),
                                   [&](const Peer& candidate) { return candidate.name == name; });
    if (peer == peers.end())
      throw Refusal(Exit::bad_usage, "this device has no peer " + name + ": use " + known(peers));
    auto kernel = peer->open(threads);
    if (!kernel)
      throw Refusal(Exit::unsupported,
                    name + " is not installed: " + peer->how_to_get + ", or use --peer none");
    kernels.push_back(*kernel);
  }
  return kernels;
}

}  // namespace gemm
