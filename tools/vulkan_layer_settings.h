// VK_EXT_layer_settings for Vulkan headers that lack it (before 1.3.272), as the Vulkan specification lays it out.
// ggml-vulkan names its types to turn on the validation layer. tools/install_ggml.py includes this before its sources.
#pragma once

#include <vulkan/vulkan_core.h>

#ifndef VK_EXT_layer_settings

#include <cstdint>
#include <vector>

namespace vk {

enum class LayerSettingTypeEXT : int32_t { eBool32 = 0 };

struct LayerSettingEXT {
  const char* pLayerName;
  const char* pSettingName;
  LayerSettingTypeEXT type;
  uint32_t valueCount;
  const void* pValues;
};

struct LayerSettingsCreateInfoEXT {
  explicit LayerSettingsCreateInfoEXT(const std::vector<LayerSettingEXT>& settings)
      : settingCount(static_cast<uint32_t>(settings.size())), pSettings(settings.data()) {}

  int32_t sType = 1000496000;
  const void* pNext = nullptr;
  uint32_t settingCount;
  const LayerSettingEXT* pSettings;
};

}  // namespace vk

#endif
